// runc-nosysres is runc for a host whose root lacks CAP_SYS_RESOURCE.
//
// dockerd asks for every capability when --privileged is given, and runc
// refuses to grant one that it does not have itself. This wrapper takes that
// one out of the process (create and run: the bundle's config.json; exec: the
// --process file) and becomes the real runc.
package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const missing = "CAP_SYS_RESOURCE"

func main() {
	command, bundle, process := parse(os.Args[1:])
	switch command {
	case "create", "run":
		rewrite(filepath.Join(bundle, "config.json"), func(spec map[string]any) any { return spec["process"] })
	case "exec":
		rewrite(process, func(spec map[string]any) any { return spec })
	}
	runc, err := exec.LookPath("runc")
	if err == nil {
		err = syscall.Exec(runc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
	}
	os.Stderr.WriteString(err.Error() + "\n")
	os.Exit(127)
}

// parse finds what matters in runc's command line; global flags may come first.
func parse(args []string) (command, bundle, process string) {
	bundle = "."
	for i, arg := range args {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch arg {
		case "create", "run", "exec":
			if command == "" {
				command = arg
			}
		case "--bundle", "-b":
			bundle = value
		case "--process", "-p":
			process = value
		}
	}
	return command, bundle, process
}

// rewrite leaves a file that it cannot read or parse alone: runc then says why.
func rewrite(path string, pick func(map[string]any) any) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var spec map[string]any
	if decoder.Decode(&spec) != nil {
		return
	}
	target, _ := pick(spec).(map[string]any)
	capabilities, _ := target["capabilities"].(map[string]any)
	for set, value := range capabilities {
		list, _ := value.([]any)
		kept := []any{}
		for _, name := range list {
			if name != missing {
				kept = append(kept, name)
			}
		}
		capabilities[set] = kept
	}
	if raw, err = json.Marshal(spec); err == nil {
		_ = os.WriteFile(path, raw, 0o600)
	}
}
