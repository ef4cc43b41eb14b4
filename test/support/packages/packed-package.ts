import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { builtPackage } from './built-package.js';
import { outsideEnvironment } from '../processes/processes.js';

const run = promisify(execFile);

/** What `npm publish` would upload. */
export interface PackedPackage {
  readonly tarball: string;
  /** Paths within the package, sorted. */
  readonly files: readonly string[];
  /** Of all files together. */
  readonly bytes: number;
}

interface Report {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
  readonly unpackedSize: number;
}

/**
 * Packs the package into `folder`, or the one in a folder of the workspace, and builds it if necessary: see
 * {@link builtPackage}.
 */
export async function packPackage(
  folder: string,
  needs: Parameters<typeof builtPackage>[0] = {},
  workspace = '',
): Promise<PackedPackage> {
  const cwd = join(await builtPackage(needs), workspace);
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await run('npm', args, { cwd, env: outsideEnvironment() });
  const [packed] = JSON.parse(stdout) as Report[];
  if (packed === undefined) throw new Error(`npm pack reported nothing: ${stdout}`);
  return {
    tarball: join(folder, packed.filename),
    files: packed.files.map(({ path }) => path).sort(),
    bytes: packed.unpackedSize,
  };
}
