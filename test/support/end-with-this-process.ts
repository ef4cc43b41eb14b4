import { spawn, type ChildProcess } from 'node:child_process';

/**
 * A shell that reads from this process until it is gone, and then ends the server and removes its folder.
 * Exit listeners would not do: they do not run after SIGKILL, nor those that are registered inside Jest's sandbox.
 *
 * @param ending - shell commands that end the process `$1`.
 */
export function endWithThisProcess(pid: number, dir: string, ending: string): ChildProcess {
  const script = `read _; ${ending}; rm -rf "$2"`;
  const watchdog = spawn('sh', ['-c', script, 'sh', String(pid), dir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  watchdog.unref();
  (watchdog.stdin as unknown as { unref?: () => void }).unref?.();
  return watchdog;
}
