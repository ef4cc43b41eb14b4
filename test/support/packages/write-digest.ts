/** The last step of `npm run build`: tests use its result as long as the sources are the same. */
import { writeFileSync } from 'node:fs';
import { DIGEST_FILE, digestOfSources } from './digest.js';

writeFileSync(DIGEST_FILE, digestOfSources());
