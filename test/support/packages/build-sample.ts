/** Before `npm start` and the demonstrations: `sample-app/dist` leads to the build of the current sources. */
import { lstat, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../project-root.js';
import { builtSample } from './built-sample.js';

const LINK = join(projectRoot, 'sample-app/dist');

const sample = await builtSample(() => console.error('Building package and sample app …'));
const isFolder = await lstat(LINK).then(
  (found) => found.isDirectory(),
  () => false,
);
if (isFolder) await rm(LINK, { recursive: true });
// In one step, so that a program which starts meanwhile finds one build or the other.
const temporary = `${LINK}-${process.pid}`;
await symlink(sample, temporary);
await rename(temporary, LINK);
