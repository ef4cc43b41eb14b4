import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAvailable } from '../../../support/internals/payload.js';
import { madeVectors } from './vectors.js';

// node --import ./test/support/typescript/register.mjs test/unit/payload/vectors/write.ts
// Only for a new kind of frame: what is written once has to be read for ever.
if (!isAvailable('zstd')) throw new Error('Run it on Node 22.15 or later: this one has no zstd.');
const text = JSON.stringify(await madeVectors(), undefined, 2);
writeFileSync(join(import.meta.dirname, 'vectors.json'), `${text}\n`);
