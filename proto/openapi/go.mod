module spanscore/openapi

go 1.24

require github.com/sudorandom/protoc-gen-connect-openapi v0.18.0
