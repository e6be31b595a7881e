import { CopyButton } from "./CopyButton";

/** Where a file lies on the server's machine, to open it in one's own editor. */
export function FilePath(props: { path: string }) {
  return (
    <p class="row edit-path">
      <code class="clip" title={props.path}>
        {props.path}
      </code>
      <CopyButton name="Copy path" text={async () => props.path} />
    </p>
  );
}
