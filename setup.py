"""Build the Cython extensions: every .pyx under fabric/_cython is an extension of its own.

Two compilers run at once by default (`FABRIC_BUILD_JOBS` says otherwise), and an extension is built
again only when its .pyx, a .pxd or a .hpp changed. `FABRIC_SANITIZE=address,undefined` builds for
the sanitizers instead of for speed.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

# An isolated build runs this file without the project on sys.path; .pxd files are found from here.
ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)
sys.path.insert(0, str(ROOT))

from Cython.Build import cythonize  # noqa: E402

FOLDER = Path("fabric/_cython")
JOBS = int(os.environ.get("FABRIC_BUILD_JOBS", "2"))
SANITIZE = os.environ.get("FABRIC_SANITIZE", "")
FLAGS = [
    "-O3", "-g0", "-std=c++20", "-fno-math-errno", "-fvisibility=hidden",
    "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
    "-Wno-maybe-uninitialized",  # GCC 12 warns of its own AVX-512 headers
]  # fmt: skip
LINK = ["-Wl,-z,relro,-z,now"]
if SANITIZE:
    FLAGS = ["-O1", "-g", "-std=c++20", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
    LINK = [f"-fsanitize={SANITIZE}"]

headers = [str(path) for path in sorted(FOLDER.rglob("*.hpp"))]
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        language="c++",
        include_dirs=[str(FOLDER / "kernels"), str(FOLDER / "shuffle")],
        depends=headers,
        extra_compile_args=FLAGS,
        extra_link_args=LINK,
    )
    for path in sorted(FOLDER.rglob("*.pyx"))
]

setup(
    ext_modules=cythonize(extensions, language_level=3, nthreads=JOBS),
    options={"build_ext": {"parallel": JOBS}},
)
