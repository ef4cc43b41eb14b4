import { describe } from '@jest/globals';
import installed from '@nestjs/core/package.json' with { type: 'json' };
import { nestVersions } from '../support/packages/versions.js';
import { describeContract } from './describe-contract.js';
import { startOnNest } from './harness/targets.js';

/** Every push runs it on the installed one. */
const others = Object.entries(nestVersions).filter(([version]) => version !== installed.version);

describe.each(others)('Nest %s', (_, packages) => {
  describeContract(startOnNest(packages));
});
