/** The options that set the one at this path: `lease.duration` is a field of a group, `fingerprint` has none. */
export function optionAt(path: string, value: unknown): object {
  const [group = '', field] = path.split('.');
  return { [group]: field === undefined ? value : { [field]: value } };
}
