import { describe } from '@jest/globals';
import { nestVersions } from '../support/packages/versions.js';
import { describeContract } from './describe-contract.js';
import { startOnNest } from './harness/targets.js';

describe.each(Object.entries(nestVersions))('Nest %s', (_, packages) => {
  describeContract(startOnNest(packages));
});
