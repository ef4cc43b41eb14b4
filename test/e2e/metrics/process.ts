import 'reflect-metadata';
import { Controller, Post } from '@nestjs/common';
import { PrometheusModule } from '@willsoto/nestjs-prometheus';
import { Idempotent } from 'nestjs-idempotency';
import { memoryStore } from 'nestjs-idempotency/memory';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { register } from 'prom-client';
import type { Platform } from '../../support/http/combinations.js';
import { startApp } from '../../support/http/start-app.js';

// Jest cannot load CommonJS packages that require() Nest 12, so applications run in this process, one after the other. It
// prints one line for each.

const PLATFORMS: readonly Platform[] = ['express', 'fastify'];

@Controller()
class Payments {
  @Post('payments')
  @Idempotent({ operation: 'pay' })
  pay() {
    return { paid: true };
  }
}

for (const platform of PLATFORMS) {
  const app = await startApp({
    platform,
    store: memoryStore(),
    controllers: [Payments],
    imports: [PrometheusModule.register()],
    guard: { canActivate: () => true },
    options: { caller: { anonymous: 'shared' }, telemetry: prometheus() },
  });
  const url = `http://127.0.0.1:${String(app.port)}`;
  const init = { method: 'POST', headers: { 'idempotency-key': '"one"' } };
  const statuses = [await fetch(`${url}/payments`, init), await fetch(`${url}/payments`, init)].map(
    ({ status }) => status,
  );
  const response = await fetch(`${url}/metrics`);
  const type = response.headers.get('content-type');
  const text = await response.text();
  await app.close();
  const left = register.getMetricsAsArray().map(({ name }) => name);
  console.log(JSON.stringify({ statuses, type, text, left }));
  register.clear();
}
process.exit();
