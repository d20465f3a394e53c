"""Keys of OpenTelemetry's general conventions."""

ENDUSER_ID = "enduser.id"
ERROR_TYPE = "error.type"
SESSION_ID = "session.id"
USER_ID = "user.id"
