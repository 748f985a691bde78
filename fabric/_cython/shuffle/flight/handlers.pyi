from typing import final

@final
class HandlerSet: ...
