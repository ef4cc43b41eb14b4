import { execFile } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Of a machine that is not Debian's. */
const PUBLIC_MIRROR = 'http://deb.debian.org/debian';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const ACQUIRE_OPTIONS = [
  'Acquire::Retries=2',
  'Acquire::http::Timeout=20',
  'Acquire::https::Timeout=20',
];

/** A suite of Debian that is newer than the system. */
export type Suite = 'trixie' | 'sid';

/** Packages of a newer Debian in a folder, with all libraries that they need: nothing is installed. */
export class UnpackedServer {
  private readonly loader: string;
  private readonly libraries: string;
  private readonly scripts = new Set<string>();

  /** @internal See {@link unpackServer}. */
  constructor(
    private readonly folder: string,
    /** Of Debian's package that was asked for first, such as `9.1.2-1`. */
    readonly version: string,
  ) {
    this.loader = this.find(/^usr\/lib(64)?\/ld-linux[^/]*\.so\.\d$/);
    const own = join(this.find(/^usr\/lib\/[^/]+\/libc\.so\.6$/), '..');
    // Of MySQL's package: its program looks for them at the place where they would be installed.
    const besides = [join(this.root, 'usr/lib/mysql/private')].filter((path) => existsSync(path));
    this.libraries = [own, ...besides].join(':');
  }

  /** The folder that stands for `/`. */
  get root(): string {
    return join(this.folder, 'root');
  }

  /**
   * A program that runs with the libraries of its own system: a script in its place, so that programs that call each
   * other by their paths find it, too.
   *
   * @param path - below the root, such as `usr/bin/valkey-server`.
   * @returns the path of the script.
   */
  program(path: string): string {
    const script = join(this.root, path);
    if (this.scripts.has(script)) return script;
    this.scripts.add(script);
    const target = realpathSync(script);
    const started = `${target}.real`;
    if (target === script) {
      renameSync(script, started);
    } else {
      // It looks at the name by which it is called.
      this.program(relative(this.root, target));
      rmSync(script);
    }
    const command = `exec '${this.loader}' --library-path '${this.libraries}' --argv0 '${script}' '${started}' "$@"`;
    writeFileSync(script, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
    return script;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  private find(pattern: RegExp): string {
    const lib = ['usr/lib', 'usr/lib64'].flatMap((below) => listed(join(this.root, below), below));
    const found = lib
      .flatMap((path) => [path, ...listed(join(this.root, path), path)])
      .find((path) => pattern.test(path));
    if (found === undefined) throw new Error(`Nothing in ${this.root} matches ${String(pattern)}.`);
    return join(this.root, found);
  }
}

function listed(folder: string, below: string): string[] {
  try {
    return readdirSync(folder).map((name) => `${below}/${name}`);
  } catch {
    return [];
  }
}

/**
 * Unpacks the newest version that Debian's archive has now, in a temporary folder. Takes about 15 seconds.
 *
 * @param packages - of the server; what they depend on comes with them.
 * @returns undefined where the archive cannot be reached, or the system has no apt-get: leave the tests out by name.
 */
export async function unpackServer(
  suite: Suite,
  ...packages: readonly [string, ...string[]]
): Promise<UnpackedServer | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-unpacked-'));
  try {
    await download(folder, suite, packages);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    console.warn(`Debian's ${packages.join(', ')} (${suite}) are left out: ${String(error)}`);
    return undefined;
  }
  // A server may refuse to run as root.
  chmodSync(folder, 0o755);
  const archives = join(folder, 'cache/archives');
  const files = readdirSync(archives).filter((name) => name.endsWith('.deb'));
  for (const file of files)
    await run('dpkg-deb', ['-x', join(archives, file), join(folder, 'root')]);
  rmSync(archives, { recursive: true });
  const [, version = ''] = files.find((name) => name.startsWith(`${packages[0]}_`))!.split('_');
  return new UnpackedServer(folder, decodeURIComponent(version));
}

/** With lists and a cache of its own: what is installed on the system does not count. */
async function download(folder: string, suite: Suite, packages: readonly string[]): Promise<void> {
  const at = (path: string) => join(folder, path);
  for (const path of ['lists/partial', 'cache/archives/partial', 'root']) {
    mkdirSync(at(path), { recursive: true });
  }
  const trust = existsSync(KEYRING) ? `signed-by=${KEYRING}` : 'trusted=yes';
  writeFileSync(at('sources.list'), `deb [${trust}] ${mirror()} ${suite} main\n`);
  writeFileSync(at('status'), '');
  const settings = [
    `Dir::Etc::sourcelist=${at('sources.list')}`,
    'Dir::Etc::sourceparts=/dev/null',
    `Dir::State::lists=${at('lists')}`,
    `Dir::State::status=${at('status')}`,
    `Dir::Cache=${at('cache')}`,
    'APT::Sandbox::User=root',
    // Otherwise an unreachable mirror is only a warning.
    'APT::Update::Error-Mode=any',
    // The system's dpkg is not concerned.
    'Debug::NoLocking=true',
    ...ACQUIRE_OPTIONS,
  ];
  const apt = (...args: string[]) =>
    run('apt-get', ['-qq', '-y', ...settings.flatMap((setting) => ['-o', setting]), ...args]);
  await apt('update');
  await apt('--no-install-recommends', '--download-only', 'install', ...packages);
}

/** The mirror of Debian that this machine uses. */
function mirror(): string {
  const folder = '/etc/apt/sources.list.d';
  const files = ['/etc/apt/sources.list', ...listed(folder, folder)].filter((file) =>
    existsSync(file),
  );
  const lines = files.flatMap((file) => readFileSync(file, 'utf8').split('\n'));
  const urls = lines
    .filter((line) => !line.trimStart().startsWith('#'))
    .flatMap((line) => /https?:\/\/\S+\/debian\/?(?=\s|$)/.exec(line)?.[0] ?? []);
  return urls[0] ?? PUBLIC_MIRROR;
}
