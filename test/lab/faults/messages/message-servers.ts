import { mkdtempSync, rmSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { connect } from 'amqplib';
import { Redis } from 'ioredis';
import { projectRoot } from '../../../support/project-root.js';
import { startRabbitMq, type RabbitMqServer } from '../../../support/rabbitmq-server.js';
import { startRedis, type RedisServer } from '../../../support/redis-server.js';
import { toJavaScript } from '../../../support/to-javascript.js';
import { COMPILED_FILES, COMPILED_LIBRARY, compileWorker } from '../compile-worker.js';
import type { Mutant } from './mutant.js';

/** What runs share: broker, store, and the program of the consumers. */
export class MessageServers {
  private constructor(
    readonly broker: RabbitMqServer,
    readonly redis: RedisServer,
    /** For the files of the runs. */
    readonly folder: string,
    private readonly program: string,
  ) {}

  static async start(): Promise<MessageServers> {
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-messages-'));
    const [broker, redis, program] = await Promise.all([
      startRabbitMq(),
      startRedis(),
      compileWorker(folder, 'messages/worker'),
    ]);
    return new MessageServers(broker, redis, folder, program);
  }

  /** The program of the consumers, with the mistake of the mutant if there is one. */
  async programOf(mutant: Mutant | undefined): Promise<string> {
    if (mutant === undefined) return this.program;
    const folder = mkdtempSync(join(this.folder, 'mutant-'));
    // All other packages are found in the folder above.
    for (const part of ['app', COMPILED_LIBRARY]) {
      await cp(join(this.folder, part), join(folder, part), {
        recursive: true,
        verbatimSymlinks: true,
      });
    }
    const sources = new Map<string, string>();
    for (const { file, original, changed } of mutant.changes) {
      const text = sources.get(file) ?? (await readFile(join(projectRoot, 'lib', file), 'utf8'));
      if (!text.includes(original)) throw new Error(`lib/${file} does not hold: ${original}`);
      sources.set(
        file,
        text.replace(original, () => changed),
      );
    }
    for (const [file, text] of sources) {
      const source = join(folder, 'changed.ts');
      await writeFile(source, text);
      const target = join(folder, COMPILED_LIBRARY, COMPILED_FILES, file.replace(/\.ts$/, '.js'));
      await writeFile(target, await toJavaScript(source));
    }
    return join(folder, relative(this.folder, this.program));
  }

  /** Of the servers' software, by its name. */
  async versions(): Promise<Readonly<Record<string, string>>> {
    const connection = await connect(this.broker.url);
    const client = new Redis(this.redis.url);
    const info = await client.info('server');
    client.disconnect();
    await connection.close();
    return {
      RabbitMQ: connection.connection.serverProperties.version,
      Redis: /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown',
    };
  }

  async stop(): Promise<void> {
    await Promise.all([this.broker.stop(), this.redis.stop()]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}
