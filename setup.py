"""Build the Cython extensions: every .pyx under fabric/_cython is an extension of its own.

Two compilers run at once by default (`FABRIC_BUILD_JOBS` says otherwise), and an extension is built
again only when its .pyx, a .pxd or a header that it includes changed. Those that include Arrow's
headers are linked with the libraries of the pyarrow wheel. `FABRIC_SANITIZE=address,undefined`
builds for the sanitizers instead of for speed.
"""

import os
import re
import sys
from pathlib import Path

import pyarrow as pa
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

INCLUDE_DIRS = [FOLDER, FOLDER / "kernels", FOLDER / "shuffle"]
INCLUDE = re.compile(r'(?:#include|extern from) [<"]([^">]+)[">]')
CIMPORT = re.compile(r"^from fabric\._cython\.([\w.]+) cimport", re.MULTILINE)
ARROW_LIBRARIES = ("arrow", "arrow_compute", "arrow_flight", "arrow_python")
SO_VERSION = pa.cpp_build_info.so_version


def named(path: Path) -> set[str]:
    """What a file of ours includes and cimports."""
    text = path.read_text()
    return set(INCLUDE.findall(text)) | {
        f"{module.replace('.', '/')}.pxd" for module in CIMPORT.findall(text)
    }


def includes(path: Path, found: dict[str, Path | None]) -> dict[str, Path | None]:
    """All that `path` includes, also by way of files of ours; None for those of others."""
    for name in named(path) - found.keys():
        places = (folder / name for folder in (path.parent, *INCLUDE_DIRS))
        found[name] = ours = next((place for place in places if place.is_file()), None)
        if ours is not None:
            includes(ours, found)
    return found


def extension(path: Path) -> Extension:
    """The extension of one .pyx, with what its headers need."""
    included: dict[str, Path | None] = {}
    for place in (path, path.with_suffix(".pxd")):
        if place.is_file():
            includes(place, included)
    arrow = any(name.startswith("arrow/") for name in included)
    crypto = any(name.startswith("openssl/") for name in included)
    libraries = [f":lib{name}.so.{SO_VERSION}" for name in ARROW_LIBRARIES] if arrow else []
    up = "/".join([".."] * (len(path.parts) - 1))  # from the extension's folder to site-packages
    return Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        language="c++",
        include_dirs=[*map(str, INCLUDE_DIRS), *([pa.get_include()] if arrow else [])],
        library_dirs=pa.get_library_dirs() if arrow else [],
        libraries=[*libraries, *(["crypto"] if crypto else [])],
        depends=sorted({str(ours) for ours in included.values() if ours is not None}),
        extra_compile_args=FLAGS,
        extra_link_args=[*LINK, *([f"-Wl,-rpath,$ORIGIN/{up}/pyarrow"] if arrow else [])],
    )


setup(
    ext_modules=cythonize(
        [extension(path) for path in sorted(FOLDER.rglob("*.pyx"))],
        language_level=3,
        nthreads=JOBS,
        include_path=[str(ROOT)],
    ),
    options={"build_ext": {"parallel": JOBS}},
)
