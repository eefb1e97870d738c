// Package mcp answers the questions of AI agents by the Model Context Protocol (https://modelcontextprotocol.io).
//
// Its place in the pipeline: around the commands of memlane. Each tool of a [Server] is a command, run by the function
// that [New] gets. It reads files only below the roots, and puts answers between marks that a capture cannot know.
package mcp
