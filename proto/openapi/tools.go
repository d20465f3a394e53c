//go:build tools
package tools
import _ "github.com/sudorandom/protoc-gen-connect-openapi"
