import { mkdtempSync, readFileSync } from 'node:fs';
import { cp, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { projectRoot } from '../support/project-root.js';
import { requireServer } from '../support/servers/find-executable.js';
import { freePort } from '../support/servers/free-port.js';
import { hasSqlite } from '../support/sqlite/sqlite-file.js';
import { useServer } from '../support/servers/use-server.js';
import { useTarball } from './support/describe-consumers.js';
import { environmentOf } from './support/run-command.js';
import { stepsOf } from './support/walk/page.js';
import { Terminal } from './support/walk/terminal.js';
import { expectWithin, tableOf, walk, type Lap, type Surroundings } from './support/walk/walk.js';

jest.setTimeout(900_000);

/** Their commands are run and their files written, in an empty folder. */
const PAGES = ['docs/getting-started/nest-11.md', 'docs/getting-started/nest-12.md'];

/** Protected and replayed, a crash survived, a test of one's own: minutes from the first word. */
const LIMITS = { '2. Protect': 5, '3. Survive': 10, '4. Test': 15 };

/** The ports that the pages name: of the applications, and of Redis. */
const PORTS = ['3000', '3001', '3002', '6379'];

const tarball = useTarball({ declarations: true });
const tables: string[] = [];

afterAll(() => {
  process.stdout.write(`\n${tables.join('\n\n')}\n\n`);
});

describe.each(PAGES)('The page %s', (page) => {
  const text = readFileSync(join(projectRoot, page), 'utf8');
  const [beginning, ...others] = stepsOf(text);
  const folder = mkdtempSync(join(tarball.folder, 'walk-'));
  const project = join(folder, 'payments');
  /** The project after the first step, without its packages. */
  const pristine = join(folder, 'pristine');
  const laps: Lap[] = [];
  const terminal = useServer(() => openTerminal(folder));
  let localize: Surroundings['localize'];

  const surroundingsOf = (one: Terminal) => ({
    terminal: one,
    localize,
    outputTimeoutMs: 60_000,
  });

  beforeAll(async () => {
    localize = await localization(tarball.packed.tarball);
    laps.push(...(await walk([beginning!], surroundingsOf(terminal))));
    const isOwn = (path: string) => !path.endsWith('node_modules');
    await cp(project, pristine, { recursive: true, filter: isOwn });
  });

  it('leads to a protected route, a survived crash and a passing test, in time', async () => {
    // Its last step is for a Node with SQLite.
    const steps = others.filter(({ name }) => hasSqlite || !name.startsWith('5.'));
    laps.push(...(await walk(steps, surroundingsOf(terminal))));
    tables.push(tableOf(page, laps));
    expectWithin(laps, LIMITS);
  });

  // The walk notices them, whatever the page.
  if (page !== PAGES[0]) return;
  it.each([
    ['a file is missing', /\*\*src\/app\.module\.ts\*\*[^]*?```\n(?=\n)/, 'another output'],
    ['a command is missing', /^KEY=.*\n/m, 'idempotency_key_missing'],
    ['a response has one header less', /^idempotent-replayed: .*\n/im, 'another output'],
  ])('cannot be walked where %s', async (mistake, part, message) => {
    const changed = text.replace(part, '');
    expect(changed).not.toBe(text);
    const copy = join(folder, mistake.replaceAll(' ', '-'));
    await cp(pristine, copy, { recursive: true });
    await symlink(join(project, 'node_modules'), join(copy, 'node_modules'));
    const another = openTerminal(copy);
    try {
      const steps = stepsOf(changed).filter(({ name }) => name.startsWith('2.'));
      await expect(walk(steps, surroundingsOf(another))).rejects.toThrow(message);
    } finally {
      another.close();
    }
  });
});

/** What differs where the reader does what the page says of Nest 11. */
const forNest11 = (flags: string) => (text: string) =>
  text
    .replace('cli@12 new payments', `cli@11 new payments ${flags}`)
    .replace(' --no-observe', '')
    .replace('@nestjs/swagger prom-client', '@nestjs/swagger@11 prom-client')
    .replaceAll("'./app.module.js'", "'./app.module'");

describe.each([
  ['Nest 12, ES modules', (text: string) => text],
  ['Nest 11, CommonJS', forNest11('')],
  ['Nest 11, CommonJS, strict', forNest11('--strict')],
])('The page docs/getting-started/payments-service.md on %s', (name, adapted) => {
  const page = 'docs/getting-started/payments-service.md';
  const text = readFileSync(join(projectRoot, page), 'utf8');
  const terminal = useServer(() => openTerminal(mkdtempSync(join(tarball.folder, 'service-'))));

  it('leads to a service that passes its own tests, and starts', async () => {
    const localize = await localization(tarball.packed.tarball);
    const laps = await walk(stepsOf(adapted(text)), {
      terminal,
      localize,
      outputTimeoutMs: 60_000,
    });
    tables.push(tableOf(`${page}, ${name}`, laps));
  });
});

function openTerminal(cwd: string): Terminal {
  const { PATH = '', ...env } = environmentOf(undefined);
  const redis = dirname(requireServer('redis-server', 'REDIS_SERVER_BIN'));
  return new Terminal(cwd, { ...env, PATH: `${PATH}:${redis}` });
}

/** The tarball in the place of the registry's package, and free ports in the place of the page's. */
async function localization(packed: string): Promise<Surroundings['localize']> {
  const free = new Map<string, number>();
  for (const port of PORTS) free.set(port, await freePort());
  const ports = new RegExp(`\\b(?:${PORTS.join('|')})\\b`, 'g');
  return (text) =>
    text
      .replace(/(?<=^npm install\b.* )nestjs-idempotency\b/gm, packed)
      .replace(ports, (port) => String(free.get(port)));
}
