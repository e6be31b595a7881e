import { Link, TopBar } from "../parts/Basics";

export function NotFound(props: { path: string }) {
  return (
    <>
      <TopBar />
      <main class="page">
        <h1>There is no such page</h1>
        <p>
          Nothing is at <code>{props.path}</code>. <Link href="/">All suites</Link>
        </p>
      </main>
    </>
  );
}
