"""Tool calls: the request, the span and the result that the next model call was given are one."""
