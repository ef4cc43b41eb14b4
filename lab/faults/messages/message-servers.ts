import { mkdtempSync, rmSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { connect } from 'amqplib';
import { Redis } from 'ioredis';
import { projectRoot } from '../../../test/support/project-root.js';
import { startRabbitMq } from '../../../test/support/rabbitmq/rabbitmq-server.js';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import type { SharedServer } from '../../../test/support/servers/shared/kinds.js';
import type { StartedServer } from '../../../test/support/servers/start-server.js';
import { toJavaScript } from '../../../test/support/typescript/to-javascript.js';
import { COMPILED_FILES, COMPILED_LIBRARY, compileWorker } from '../compile-worker.js';
import type { Mutant } from './mutant.js';

export interface UsedServers {
  readonly broker: Required<SharedServer>;
  readonly redis: SharedServer;
}

/** What runs share: broker, store, and the program of the consumers. */
export class MessageServers {
  private constructor(
    readonly broker: UsedServers['broker'],
    readonly redis: UsedServers['redis'],
    /** For the files of the runs. */
    readonly folder: string,
    private readonly program: string,
    /** Those of its own. */
    private readonly started: readonly StartedServer[],
  ) {}

  /** @param used - what it is not to start, nor to stop. */
  static async start(used?: UsedServers): Promise<MessageServers> {
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-messages-'));
    const compiled = compileWorker(folder, 'messages/worker');
    if (used !== undefined) {
      return new MessageServers(used.broker, used.redis, folder, await compiled, []);
    }
    const started = await Promise.all([startRabbitMq(), startRedis()]);
    return new MessageServers(...started, folder, await compiled, started);
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
    await Promise.all(this.started.map((server) => server.stop()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
