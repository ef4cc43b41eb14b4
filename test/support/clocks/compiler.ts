import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SHARED_LIBRARY = ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-Werror'];

export interface FoundCompiler {
  readonly command: string;
  readonly version: string;
}

/** The C compiler that CC names, else gcc; `undefined` unless it can make a shared library. */
export function findCompiler(): FoundCompiler | undefined {
  const command = process.env.CC ?? 'gcc';
  const { status, stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' });
  if (status !== 0) return undefined;
  const dir = mkdtempSync(join(tmpdir(), 'idempotency-cc-'));
  try {
    const source = join(dir, 'empty.c');
    // A compiler without the headers of the C library exists, too, and is useless.
    writeFileSync(source, '#include <time.h>\n');
    compile(command, source, join(dir, 'empty.so'));
    return { command, version: stdout.split('\n', 1)[0]! };
  } catch {
    return undefined;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** @throws Error with the compiler's message. */
export function compile(command: string, source: string, target: string): void {
  const args = [...SHARED_LIBRARY, '-o', target, source];
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} cannot compile ${source}: ${stderr}`);
}
