import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from '@jest/globals';
import { platforms } from '../../support/http/combinations.js';
import { samplesOf } from '../../support/docs/documented-typescript.js';
import { Child } from '../../support/processes/child.js';
import { projectRoot } from '../../support/project-root.js';
import { until } from '../../support/waiting/until.js';
import { startCollector, type OtlpSpan } from './support/collector.js';

const [, instrumentation = ''] = samplesOf('docs/operations/telemetry.md');

const resultOf = ({ attributes }: OtlpSpan) =>
  attributes.find(({ key }) => key === 'idempotency.result')?.value.stringValue;

it.each(platforms)(
  'the instrumentation.ts of the docs exports the spans of requests on %s',
  async (platform) => {
    expect(instrumentation).toContain('// instrumentation.ts');
    const folder = await mkdtemp(join(projectRoot, 'test/.tmp-telemetry-'));
    const collector = await startCollector();
    const file = join(folder, 'instrumentation.ts');
    await writeFile(file, instrumentation);
    const app = await Child.start(new URL('support/traced-app.ts', import.meta.url), {
      env: {
        PLATFORM: platform,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
        OTEL_METRICS_EXPORTER: 'none',
        OTEL_LOGS_EXPORTER: 'none',
        OTEL_BSP_SCHEDULE_DELAY: '10',
      },
      nodeOptions: ['--import', pathToFileURL(file).href],
    });
    try {
      const port = await app.call<number>('port');
      const post = async () => {
        const headers = { 'idempotency-key': 'one-payment' };
        const url = `http://127.0.0.1:${String(port)}/payments`;
        return (await fetch(url, { method: 'POST', headers })).status;
      };
      expect([await post(), await post()]).toEqual([201, 201]);
      const requests = () => collector.spans.filter(({ name }) => name.startsWith('POST'));
      await until(() => requests().length === 2);
      const [first, replay] = requests() as [OtlpSpan, OtlpSpan];
      expect([first, replay].map(resultOf)).toEqual(['executed', 'replayed']);
      expect(replay.links).toMatchObject([{ traceId: first.traceId, spanId: first.spanId }]);
    } finally {
      await app.stop();
      await collector.close();
      await rm(folder, { recursive: true });
    }
  },
);
