import { nestVersions } from '../support/packages/versions.js';
import { describeConsumers, useTarball } from './support/describe-consumers.js';

const LIBRARIES = {
  // prom-client brings it.
  '@opentelemetry/api': '1.9.0',
  bullmq: '5.81.5',
  ioredis: '5.9.2',
  msgpackr: '2.1.3',
  'prom-client': '15.1.3',
};

describeConsumers(
  useTarball({ declarations: true }),
  Object.entries(nestVersions).flatMap(([version, nest]) =>
    (['commonjs', 'module'] as const)
      // Nest 12 consists of ES modules, and so do its applications.
      .filter((type) => type === 'module' || version.startsWith('11.'))
      .map((type) => ({
        name: `an application of type ${type} on Nest ${version}`,
        type,
        dependencies: { ...nest, ...LIBRARIES },
      })),
  ),
);
