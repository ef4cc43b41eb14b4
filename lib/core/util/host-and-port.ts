/** As URLs write it: an IPv6 address has brackets. */
export function hostAndPort(host: string, port: number | string): string {
  return `${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;
}
