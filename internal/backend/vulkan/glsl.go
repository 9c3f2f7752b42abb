package vulkan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// compiler finds glslc.
func compiler() (string, error) {
	path, err := exec.LookPath("glslc")
	if err != nil {
		return "", fmt.Errorf("GLSL needs glslc: %w: %w; install it, or give the kernel as SPIR-V, which glslc -O --target-env=vulkan1.1 makes of it elsewhere", driver.ErrUnavailable, err)
	}
	return path, nil
}

// compile turns GLSL into SPIR-V.
func compile(source []byte) ([]byte, error) {
	path, err := compiler()
	if err != nil {
		return nil, err
	}
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-O", "--target-env=vulkan1.1", "-fshader-stage=compute", "-", "-o", "-")
	var code, says bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(source), &code, &says
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() < 0 {
			// It was not started, or not let end: the source may be good.
			return nil, fmt.Errorf("glslc: %w: %w", driver.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("glslc: %w: %s", err, strings.Join(strings.Fields(says.String()), " "))
	}
	return code.Bytes(), nil
}
