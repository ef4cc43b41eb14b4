import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { prometheus } from 'nestjs-idempotency/prometheus';
import { Registry } from 'prom-client';

/** What only workers load whose metrics are scraped. */
export function openMetrics() {
  const registry = new Registry();
  return {
    telemetry: prometheus({ registry }),
    /** At /metrics, besides Nest: no guard applies. */
    serve(app: NestFastifyApplication): void {
      const server = app.getHttpAdapter().getInstance();
      server.get('/metrics', async (_request, reply) =>
        reply.type(registry.contentType).send(await registry.metrics()),
      );
    },
  };
}
