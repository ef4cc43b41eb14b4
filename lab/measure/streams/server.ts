import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Controller, Post, Res, StreamableFile } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Platform } from '../../../test/support/http/combinations.js';
import { ALICE } from '../../../test/support/http/callers.guard.js';
import { takeRaw, type FastifyReply } from '../../../test/support/http/reply.js';
import { startApp } from '../../../test/support/http/start-app.js';
import { bytesOf, streamOf } from '../../../test/support/http/streamed-bodies.js';
import { serve } from '../../../test/support/processes/child.js';
import { openBlobs } from '../../faults/worker/open-blobs.js';
import type { BlobSettings } from '../../faults/worker/settings.js';

/** What a server of large bodies is started with. */
export interface BodiesSettings {
  readonly platform: Platform;
  readonly blobs: BlobSettings;
  /** Of each body. */
  readonly bytes: number;
  /** Where the bare routes write. */
  readonly directory: string;
}

let settings: BodiesSettings;
let executions = 0;
let highestRss = 0;

const next = () => streamOf((executions += 1), settings.bytes);

/** Each of the ways to send a large body; and the same by hand, without the library. */
@Controller()
class Bodies {
  @Post('file')
  @Idempotent()
  file() {
    return new StreamableFile(next());
  }

  @Post('pipe')
  @Idempotent()
  pipe(@Res() reply: ServerResponse | FastifyReply) {
    next().pipe(takeRaw(reply));
  }

  @Post('writes')
  @Idempotent()
  async writes(@Res() reply: ServerResponse | FastifyReply) {
    const response = takeRaw(reply);
    for (const chunk of bytesOf((executions += 1), settings.bytes)) {
      if (!response.write(chunk)) await once(response, 'drain');
    }
    response.end();
  }

  /** Writes, syncs, hashes, reads back and sends. */
  @Post('bare-first')
  async bareFirst() {
    const path = join(settings.directory, 'bare');
    const digest = createHash('sha256');
    const file = await open(path, 'w');
    for await (const chunk of next() as AsyncIterable<Buffer>) {
      digest.update(chunk);
      await file.writeFile(chunk);
    }
    await file.sync();
    await file.close();
    digest.digest();
    return new StreamableFile(createReadStream(path));
  }

  /** Sends what {@link bareFirst} has written. */
  @Post('bare')
  bare() {
    return new StreamableFile(createReadStream(join(settings.directory, 'bare')));
  }
}

serve({
  async start(given: BodiesSettings): Promise<number> {
    settings = given;
    const { port } = await startApp({
      platform: given.platform,
      controllers: [Bodies],
      store: memoryStore({ allowInMemoryStorage: true }),
      guard: ALICE,
      options: { blobs: await openBlobs(given.blobs) },
    });
    return port;
  },
  executions: () => executions,
  /** Bytes; from now on, the highest of what follows. */
  startWatchingRss(): number {
    highestRss = process.memoryUsage.rss();
    setInterval(() => {
      highestRss = Math.max(highestRss, process.memoryUsage.rss());
    }, 10).unref();
    return highestRss;
  },
  highestRss: () => highestRss,
});
