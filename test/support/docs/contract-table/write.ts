import { writeFileSync } from 'node:fs';
import { contractFile, currentContract } from './current-contract.js';

writeFileSync(contractFile, currentContract());
