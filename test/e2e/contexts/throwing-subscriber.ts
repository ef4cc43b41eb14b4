import 'reflect-metadata';
import { subscribe } from 'node:diagnostics_channel';
import { Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { Platform } from '../../support/http/combinations.js';
import { startApp } from '../../support/http/start-app.js';

// Jest has handlers of its own for uncaught exceptions. This process prints one line for each platform.

const PLATFORMS: readonly Platform[] = ['express', 'fastify'];

const uncaught: string[] = [];
process.on('uncaughtException', ({ message }) => uncaught.push(message));

for (const name of ['replayed', 'rejected']) {
  subscribe(`nestjs:idempotency:${name}`, () => {
    throw new Error(`thrown by ${name}`);
  });
}

for (const platform of PLATFORMS) {
  let runs = 0;

  @Controller()
  class Payments {
    @Post('pay')
    @Idempotent()
    pay() {
      return { run: (runs += 1) };
    }
  }

  const app = await startApp({
    platform,
    store: memoryStore(),
    controllers: [Payments],
    guard: { canActivate: () => true },
    options: { caller: { anonymous: 'shared' } },
  });
  const statuses: number[] = [];
  const bodies: unknown[] = [];
  const send = async (body: string) => {
    const headers = { 'idempotency-key': 'one', 'content-type': 'application/json' };
    const url = `http://127.0.0.1:${String(app.port)}/pay`;
    const response = await fetch(url, { method: 'POST', headers, body });
    statuses.push(response.status);
    bodies.push(await response.json());
  };
  await send('{}');
  await send('{}');
  await send('{"amount":2}');
  await app.close();
  console.log(JSON.stringify({ platform, statuses, bodies, uncaught: uncaught.splice(0) }));
}
process.exit();
