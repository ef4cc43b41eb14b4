import { spawnSync } from 'node:child_process';

export interface FoundSpin {
  readonly command: string;
  readonly version: string;
}

/** The model checker that SPIN_BIN names, else the one on PATH: other programs have its name, too. */
export function findSpin(): FoundSpin | undefined {
  const command = process.env.SPIN_BIN ?? 'spin';
  const { stdout } = spawnSync(command, ['-V'], { encoding: 'utf8' });
  const version = /^Spin Version \d\S*/.exec(stdout)?.[0];
  return version === undefined ? undefined : { command, version };
}
