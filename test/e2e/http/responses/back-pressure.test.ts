import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { Controller, Param, Post, Res } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { platforms } from '../../../support/http/combinations.js';
import { expectProblem } from '../../../support/http/expectations.js';
import { onceSettled } from '../../../support/http/once-settled.js';
import { type ExpressResponse, type FastifyReply, takeRaw } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';
import { startApp } from '../../../support/http/start-app.js';
import { Tally } from '../../../support/waiting/tally.js';
import { unavailable, type FaultyStore } from '../../../support/stores/faulty-store.js';
import { slowStore } from '../../../support/stores/slow-store.js';
import { useServer } from '../../../support/servers/use-server.js';

const CHUNK = Buffer.alloc(20_000, 'x');
const CHUNKS = 200;

/** Has all of its chunks ready, and counts those that were read. */
function* source(taken: Tally): Generator<Buffer> {
  for (let i = 0; i < CHUNKS; i += 1) {
    taken.add();
    yield CHUNK;
  }
}

type Way = (raw: ServerResponse, chunks: Generator<Buffer>) => Promise<void>;

/** The ways to write a large response no faster than the client reads it. */
const WAYS: Record<string, Way> = {
  'the callback of write()': async (raw, chunks) => {
    for (const chunk of chunks) await new Promise((resolve) => raw.write(chunk, resolve));
    raw.end();
  },
  'the return value of write()': async (raw, chunks) => {
    for (const chunk of chunks) if (!raw.write(chunk)) await once(raw, 'drain');
    raw.end();
  },
  writableNeedDrain: async (raw, chunks) => {
    for (const chunk of chunks) {
      raw.write(chunk);
      if (raw.writableNeedDrain) await once(raw, 'drain');
    }
    raw.end();
  },
  'pipeline()': (raw, chunks) => pipeline(chunks, raw),
};

const done = new Tally();

@Controller()
class BackPressureController {
  @Post('ways/:way')
  @Idempotent({
    outcome: { maxBytes: 1_000 },
    storeErrors: { whenNotSaved: 'error', saveTimeoutMs: 100 },
  })
  async write(
    @InScenario() scenario: Scenario,
    @Res() reply: ExpressResponse | FastifyReply,
    @Param('way') way: string,
  ) {
    await scenario.run();
    const taken = new Tally();
    setImmediate(() => scenario.notes.push(taken.count));
    try {
      await WAYS[way]!(takeRaw(reply), source(taken));
    } finally {
      done.add();
    }
  }
}

describe.each(platforms)('back pressure on %s', (platform) => {
  const failing = slowStore();
  failing.always(unavailable, 'complete');
  const started = (store: FaultyStore) =>
    useServer(() =>
      startApp({
        platform,
        store,
        controllers: [BackPressureController],
        options: { limits: { shutdownTimeoutMs: 100 } },
      }),
    );
  const app = started(slowStore());
  const appThatCannotSave = started(failing);

  describe.each(Object.keys(WAYS))('a source that respects %s', (way) => {
    const path = `/ways/${encodeURIComponent(way)}`;

    it('yields to other work, and its response arrives complete, when that is too large to store', async () => {
      const scenario = app.scenario();
      const first = await scenario.post(path);
      expect(first).toMatchObject({ status: 201, replayed: false });
      expect(first.body).toHaveLength(CHUNKS * CHUNK.length);
      // Without back pressure, the source would have been read to its end in one tick.
      expect(scenario.notes).toEqual([expect.any(Number)]);
      expect(scenario.notes[0]).toBeLessThan(CHUNKS / 10);
      expectProblem(await onceSettled(() => scenario.post(path)), 'response-not-kept');
    });

    it('is read to its end when another response was sent instead', async () => {
      const scenario = appThatCannotSave.scenario();
      const before = done.count;
      expect(await scenario.post(path)).toMatchObject({ status: 503 });
      await done.reached(before + 1);
      expect(scenario.executions).toBe(1);
    });
  });
});
