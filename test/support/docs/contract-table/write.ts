import { writeFileSync } from 'node:fs';
import { contractFile, currentContract } from './contract-table.js';

writeFileSync(contractFile, currentContract());
