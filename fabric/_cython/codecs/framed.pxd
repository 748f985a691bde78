from libcpp.string cimport string


cdef extern from *:
    """
    #include "codecs/framed.hpp"

    typedef int (*fabric_ask)(void* decoder, const std::string& header, std::string* reason);

    // A lookup that asks a Python object: `ask` takes the GIL, and returns -1 with an error set.
    static fabric::codecs::Lookup fabric_lookup_of(void* decoder, fabric_ask ask) {
      return [=](std::string_view header, std::string& reason) {
        const int found = ask(decoder, std::string(header), &reason);
        if (found < 0) throw fabric::codecs::PythonError();
        return found > 0;
      };
    }
    """
    cppclass Lookup "fabric::codecs::Lookup":
        Lookup() nogil
    ctypedef int (*Ask "fabric_ask")(
        void* decoder, const string& header, string* reason) except -1 nogil
    Lookup lookup_of "fabric_lookup_of"(void* decoder, Ask ask)
