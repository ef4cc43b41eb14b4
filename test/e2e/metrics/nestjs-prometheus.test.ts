import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { platforms } from '../../support/http/combinations.js';
import { expositionIn, seriesName } from '../../support/metrics/exposition.js';
import { outsideEnvironment } from '../../support/processes/outside-environment.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';

const SCRIPT = fileURLToPath(new URL('process.ts', import.meta.url));

interface Scraped {
  readonly statuses: readonly number[];
  readonly type: string;
  readonly text: string;
  /** The names in the registry after the application was closed. */
  readonly left: readonly string[];
}

it('@willsoto/nestjs-prometheus serves the metrics of one application after the other', async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...typescriptNodeOptions, SCRIPT],
    { env: outsideEnvironment() },
  );
  const scraped = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Scraped);
  expect(scraped).toHaveLength(platforms.length);
  for (const { statuses, type, text, left } of scraped) {
    expect(statuses).toEqual([201, 201]);
    expect(type).toContain('text/plain; version=0.0.4');
    const { series } = expositionIn(text);
    const requests = (result: string) =>
      series.get(
        seriesName('idempotency_requests_total', {
          idempotency_operation_name: 'pay',
          idempotency_transport: 'http',
          idempotency_result: result,
        }),
      );
    expect([requests('executed'), requests('replayed')]).toEqual([1, 1]);
    expect(left).toContain('nodejs_version_info');
    expect(left.filter((name) => name.startsWith('idempotency_'))).toEqual([]);
  }
}, 60_000);
