import { describeContract } from './describe-contract.js';
import { useTargets } from './harness/targets.js';

describeContract(useTargets());
