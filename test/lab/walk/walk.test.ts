import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { IdempotencyModule, IdempotencyProblem } from 'nestjs-idempotency';
import { IdempotencyEngine } from '../../support/internals/core/engine.js';
import { IdempotencyInterceptor } from '../../support/internals/nest.js';
import { RedisIdempotencyStore } from '../../support/internals/stores/redis.js';
import { projectRoot } from '../../support/project-root.js';
import { useRabbitMq } from '../../support/rabbitmq/use-rabbitmq.js';
import { walk } from './walk.js';

const broker = useRabbitMq();

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
      const { files, lines, scripts, executions } = await walk({ trip, broker });
      expect({ scripts, executions }).toEqual({ scripts: 2, executions: 1 });
      expect(files).toContain(fileOf(IdempotencyEngine));
      expect(files).toContain(fileOf(RedisIdempotencyStore));
      expect(files).not.toContain(fileOf(IdempotencyModule));
      expect(lines).toBeGreaterThan(files.length);
    },
  );

  it('of a replay executes nothing, and lists fewer files than a first POST', async () => {
    const first = await walk({ trip: 'first POST', broker });
    const replay = await walk({ trip: 'replay', broker });
    const { scripts, executions, files } = replay;
    expect({ scripts, executions }).toEqual({ scripts: 1, executions: 0 });
    expect(files).toContain(fileOf(RedisIdempotencyStore));
    // It finds the transport of its handler, which is resolved at the start, by itself.
    expect(files.filter((file) => file.startsWith('nest/'))).toEqual([
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
