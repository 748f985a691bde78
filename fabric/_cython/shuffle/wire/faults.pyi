from collections.abc import Callable

def install(
    *,
    from_status: Callable[[str, bytes], BaseException],
    told: Callable[[BaseException], tuple[str, str, bytes]],
) -> None: ...
