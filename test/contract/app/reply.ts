/** What Express' response and Fastify's reply have in common. */
export interface Reply {
  status(code: number): this;
  header(name: string, value: string | readonly string[]): this;
  send(body?: unknown): this;
}
