"""Tool calls: request, span and result in one."""
