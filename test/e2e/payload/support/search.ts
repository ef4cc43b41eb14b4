import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

type Content = string | Uint8Array;

/** What to look for, by its name; of several forms any counts. */
export type Wanted = Readonly<Record<string, Content | readonly Content[]>>;

/** What is looked through, by where it was left. */
export type Places = Readonly<Record<string, Content>>;

/** What of it is in each place, as it is, in hexadecimal or in base64. */
export function searched(places: Places, wanted: Wanted): Record<string, string[]> {
  const forms = Object.entries(wanted).map(
    ([name, given]) => [name, [given].flat().flatMap(formsOf)] as const,
  );
  return Object.fromEntries(
    Object.entries(places).map(([place, content]) => {
      const bytes = Buffer.from(content);
      const found = forms.filter(([, all]) => all.some((form) => bytes.includes(form)));
      return [place, found.map(([name]) => name)];
    }),
  );
}

/** All files below a folder. */
export function filesIn(folder: string): Buffer {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name)));
  return Buffer.concat(files);
}

function formsOf(wanted: Content): Buffer[] {
  const bytes = Buffer.from(wanted);
  /** Without the characters at its ends, which also depend on what stands beside it. */
  const inBase64 = (shift: number) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(4, -4);
  const texts = [bytes.toString('hex'), ...[0, 1, 2].map(inBase64)];
  return [bytes, ...texts.map((text) => Buffer.from(text))];
}
