import { describe } from '@jest/globals';
import installed from '@nestjs/core/package.json' with { type: 'json' };
import { nestVersions } from '../support/packages/versions.js';
import { describeContract } from './describe-contract.js';
import { startOnNest } from './harness/targets.js';

/** Every push runs it on the installed one. */
const { [installed.version as keyof typeof nestVersions]: _, ...others } = nestVersions;

describe.each(Object.entries(others))('Nest %s', (_, packages) => {
  describeContract(startOnNest(packages));
});
