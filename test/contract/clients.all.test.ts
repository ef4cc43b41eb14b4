import { describeContract } from './describe-contract.js';
import { startByClients } from './harness/targets.js';

describeContract(startByClients());
