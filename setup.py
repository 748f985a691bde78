"""Build the Cython extensions: every .pyx under fabric/_cython is an extension of its own."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

FLAGS = ["-O3", "-std=c++20", "-fno-math-errno", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong"]

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts), [str(path)], language="c++",
        extra_compile_args=FLAGS, extra_link_args=["-Wl,-z,relro,-z,now"],
    )
    for path in sorted(Path("fabric/_cython").rglob("*.pyx"))
]  # fmt: skip

setup(ext_modules=cythonize(extensions, language_level=3, nthreads=2) if extensions else [])
