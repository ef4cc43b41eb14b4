import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyModule, IdempotencyProblem } from 'nestjs-idempotency';
import { IdempotencyEngine } from '../../test/support/internals/core.js';
import { IdempotencyInterceptor } from '../../test/support/internals/nest.js';
import { RedisIdempotencyStore } from '../../test/support/internals/redis.js';
import { projectRoot } from '../../test/support/project-root.js';
import { useRabbitMq } from '../../test/support/rabbitmq/use-rabbitmq.js';
import type { TripName } from './trip.js';
import { SOCKET } from './trace.js';
import { walk, wayOf, type Walk } from './walk.js';

const broker = useRabbitMq();
const walks = new Map<TripName, Promise<Walk>>();

/** Each trip is made once for all tests. */
function walkOf(trip: TripName): Promise<Walk> {
  const walked = walks.get(trip) ?? walk({ trip, broker });
  walks.set(trip, walked);
  return walked;
}

/** The file below `lib` that declares a class, wherever it has moved. */
function fileOf({ name }: { readonly name: string }): string {
  const lib = join(projectRoot, 'lib');
  const isDeclaredIn = (file: string) =>
    file.endsWith('.ts') &&
    new RegExp(`^export (abstract )?class ${name}\\b`, 'm').test(
      readFileSync(join(lib, file), 'utf8'),
    );
  const file = readdirSync(lib, { recursive: true, encoding: 'utf8' }).find(isDeclaredIn);
  if (file === undefined) throw new Error(`No file of lib declares ${name}.`);
  return file;
}

describe('npm run lab -- walk', () => {
  it.each(['first POST', 'message', 'call'] as const)(
    'of a %s lists the files of its only execution, and none of the start',
    async (trip) => {
      const { files, lines, scripts, executions } = await walkOf(trip);
      expect({ scripts, executions }).toEqual({ scripts: 2, executions: 1 });
      expect(files).toContain(fileOf(IdempotencyEngine));
      expect(files).toContain(fileOf(RedisIdempotencyStore));
      expect(files).not.toContain(fileOf(IdempotencyModule));
      expect(lines).toBeGreaterThan(files.length);
    },
  );

  it('counts the moves from file to file, those back, and those from the store to its socket', () => {
    const way = ['a', 'stores/b begin', 'stores/b', 'stores/c', `${SOCKET} 1`, 'stores/b', 'a'];
    const entries = [...way, `${SOCKET} 6379`, 'd'].map((entry, at) => {
      const [file = '', name = ''] = entry.split(' ');
      return { file, name, at };
    });
    expect(wayOf(entries, '6379')).toMatchObject({
      calls: 7,
      functions: 7,
      moves: 5,
      returns: 2,
      movesToSocket: 3,
    });
  });

  it('finds the way of a first POST to the socket of Redis', async () => {
    const { files, way } = await walkOf('first POST');
    expect(way.calls).toBeGreaterThan(way.functions);
    expect(way.moves).toBeGreaterThan(files.length);
    expect(way.returns).toBeLessThan(way.moves);
    expect(way.movesToSocket).toBeGreaterThan(0);
    expect(way.movesToSocket).toBeLessThan(way.moves);
  });

  it('of a replay executes nothing, and lists fewer files than a first POST', async () => {
    const first = await walkOf('first POST');
    const replay = await walkOf('replay');
    const { scripts, executions, files } = replay;
    expect({ scripts, executions }).toEqual({ scripts: 1, executions: 0 });
    expect(files).toContain(fileOf(RedisIdempotencyStore));
    // It finds the transport of its handler, which is resolved at the start, by itself, and is called by the other file.
    expect(files.filter((file) => file.startsWith('nest/'))).toEqual([
      'nest/fast-path.ts',
      fileOf(IdempotencyInterceptor),
    ]);
    expect(files.length).toBeLessThan(first.files.length);
  });

  it('lists files of the start if counts are not reset, and none only because it is loaded', async () => {
    const { files } = await walk({ trip: 'call', broker, keepsStart: true });
    expect(files).toContain(fileOf(IdempotencyModule));
    expect(files).not.toContain(fileOf(IdempotencyProblem));
    expect(files).not.toContain('index.ts');
  });
});

/** The names of files of `lib` in a text, and what its links lead to. */
function filesIn(text: string): string[] {
  const names = [...text.matchAll(/[\w./-]+\.ts\b/g)].map(([name]) =>
    name.replace('../../lib/', ''),
  );
  return [...new Set(names)].sort();
}

/** The parts of a text by their headings. */
function sectionsOf(text: string, level: '##' | '###'): ReadonlyMap<string, string> {
  const [, ...sections] = text.split(new RegExp(`^${level} `, 'm'));
  return new Map(sections.map((section) => [section.slice(0, section.indexOf('\n')), section]));
}

function countsIn(text: string) {
  const [, files, scripts] = /\*\*(\d+) files\*\*.*\*\*(\d+) commands?\*\*/s.exec(text) ?? [];
  return { files: Number(files), scripts: Number(scripts) };
}

describe('docs/explanation/one-request.md and one-message.md', () => {
  const page = ['one-request', 'one-message']
    .map((name) => readFileSync(join(projectRoot, `docs/explanation/${name}.md`), 'utf8'))
    .join('\n');
  const sections = sectionsOf(page, '##');
  const textOf = (title: string) => sections.get(title) ?? '';

  it('name the files of a first POST, all of them and no others', async () => {
    const { files, scripts } = await walkOf('first POST');
    const text = textOf('A first POST');
    expect(filesIn(text)).toEqual(files);
    expect(countsIn(text)).toEqual({ files: files.length, scripts });
  });

  it('name the files in which a replay differs, all of them and no others', async () => {
    const first = await walkOf('first POST');
    const { files, scripts } = await walkOf('replay');
    const text = textOf('A replay');
    const parts = sectionsOf(text, '###');
    const without = (all: readonly string[], some: readonly string[]) =>
      all.filter((file) => !some.includes(file));
    const only = {
      replay: without(files, first.files),
      first: without(first.files, files),
    };
    expect(filesIn(parts.get('Only a replay') ?? '')).toEqual(only.replay);
    expect(filesIn(parts.get('Only a first POST') ?? '')).toEqual(only.first);
    expect(filesIn(text)).toEqual([...only.replay, ...only.first].sort());
    expect(countsIn(text)).toEqual({ files: files.length, scripts });
  });

  it.each(['message', 'call'] as const)('name only files of a %s', async (trip) => {
    const { files } = await walkOf(trip);
    const named = filesIn(textOf(`A ${trip}`));
    expect(named).toContain('core/engine/run-operation.ts');
    expect(files).toEqual(expect.arrayContaining(named));
  });

  it('name no file elsewhere', () => {
    const trips = ['A first POST', 'A replay', 'A message', 'A call'].map(textOf);
    const rest = trips.reduce((text, trip) => text.replace(trip, ''), page);
    expect(filesIn(rest)).toEqual([]);
  });
});
