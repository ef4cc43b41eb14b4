/** The option at a path, `lease.duration`, in objects of its own. */
export function optionAt(path: string, value: unknown): object {
  return path.split('.').reduceRight((given, name) => ({ [name]: given }), value) as object;
}
