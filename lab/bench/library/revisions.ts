import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { outsideEnvironment } from '../../../test/support/processes/processes.js';
import { projectRoot } from '../../../test/support/project-root.js';
import { BENCH_FOLDERS, LOADER, type BenchCode } from '../measuring/worker.js';

const run = promisify(execFile);

const MOST_OUTPUT_BYTES = 64 * 1024 ** 2;

/** What stands in the checkout, committed or not. */
export const CHECKOUT = 'the checkout';

/** A commit in a folder of its own: installed by its own lockfile, built by its own build. */
export interface Revision {
  /** Of the built library. */
  readonly library: string;
  readonly code: BenchCode;
}

/** Commits side by side, of which {@link remove} leaves nothing. */
export class Revisions {
  private readonly folder = mkdtempSync(join(tmpdir(), 'idempotency-revisions-'));
  /** Installed packages, by the digest of their lockfile. */
  private readonly packages = new Map<string, string>();
  private count = 0;

  constructor() {
    process.once('exit', () => this.remove());
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
  }

  /** @param name - a commit, or {@link CHECKOUT}. */
  async prepare(name: string, onProgress: (text: string) => void): Promise<Revision> {
    const library = join(this.folder, String((this.count += 1)));
    await mkdir(library);
    await (name === CHECKOUT ? copyCheckout(library) : this.unpack(name, library));
    const bench = BENCH_FOLDERS.find((folder) => existsSync(join(library, folder)));
    if (bench === undefined) throw new Error(`${name} has no benchmark.`);
    onProgress(`${name}: packages`);
    symlinkSync(await this.packagesOf(library), join(library, 'node_modules'));
    onProgress(`${name}: build`);
    await npm(library, 'run', '--silent', 'build');
    return { library, code: { folder: join(library, bench), loader: join(library, LOADER) } };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async unpack(revision: string, folder: string): Promise<void> {
    const tar = join(this.folder, 'commit.tar');
    // As an object, so that a revision is never an option.
    const { stdout } = await git(
      'rev-parse',
      '--verify',
      '--end-of-options',
      `${revision}^{commit}`,
    );
    await git('archive', '--output', tar, stdout.trim());
    await run('tar', ['-xf', tar, '-C', folder]);
  }

  private async packagesOf(library: string): Promise<string> {
    const lockfile = readFileSync(join(library, 'package-lock.json'));
    const digest = createHash('sha256').update(lockfile).digest('hex');
    const known = this.packages.get(digest) ?? (await this.install(library, digest));
    this.packages.set(digest, known);
    return known;
  }

  private async install(library: string, digest: string): Promise<string> {
    const own = join(projectRoot, 'node_modules');
    if (holds(own, join(library, 'package-lock.json'))) return own;
    const folder = join(this.folder, digest);
    await mkdir(folder);
    for (const name of ['package.json', 'package-lock.json', '.npmrc']) {
      if (existsSync(join(library, name))) cpSync(join(library, name), join(folder, name));
    }
    await npm(folder, 'ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund');
    return join(folder, 'node_modules');
  }
}

interface Lockfile {
  readonly packages: Readonly<Record<string, { version?: string; optional?: boolean }>>;
}

/** Whether installed packages are those of a lockfile, none more and none less. */
function holds(installed: string, lockfile: string): boolean {
  const file = join(installed, '.package-lock.json');
  if (!existsSync(file)) return false;
  const [present, wanted] = [file, lockfile].map(
    (name) => (JSON.parse(readFileSync(name, 'utf8')) as Lockfile).packages,
  ) as [Lockfile['packages'], Lockfile['packages']];
  const isThere = (name: string) => present[name]?.version === wanted[name]?.version;
  return (
    Object.keys(present).every((name) => name in wanted && isThere(name)) &&
    Object.entries(wanted).every(([name, { optional }]) => {
      return name === '' || (optional === true && !(name in present)) || isThere(name);
    })
  );
}

/** All files that git knows or would add. */
async function copyCheckout(folder: string): Promise<void> {
  const { stdout } = await git('ls-files', '-coz', '--exclude-standard');
  for (const name of stdout.split('\0')) {
    if (name === '' || !existsSync(join(projectRoot, name))) continue;
    await mkdir(dirname(join(folder, name)), { recursive: true });
    cpSync(join(projectRoot, name), join(folder, name));
  }
}

function git(...args: string[]) {
  return run('git', args, { cwd: projectRoot, maxBuffer: MOST_OUTPUT_BYTES });
}

async function npm(cwd: string, ...args: string[]): Promise<void> {
  try {
    await run('npm', args, { cwd, env: outsideEnvironment(), maxBuffer: MOST_OUTPUT_BYTES });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`npm ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error });
  }
}
