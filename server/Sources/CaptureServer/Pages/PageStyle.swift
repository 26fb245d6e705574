/// The style of all pages.
enum PageStyle {
  static let text = #"""
    :root { color-scheme: light dark; --ink: #1d2125; --soft: #59636e; --paper: #ffffff; --panel: #f5f7f9; --line: #d4dae0;
      --accent: #0b61a4; --good: #1a7040; --fair: #8a5300; --bad: #b3261e; }
    @media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a2abb4; --paper: #15181b; --panel: #1e2226; --line: #3a4148;
      --accent: #7fbcf0; --good: #6fcf97; --fair: #e8b25a; --bad: #ff8f86; } }
    body { margin: 0 auto; max-width: 1100px; padding: 0 16px 48px; background: var(--paper); color: var(--ink);
      font: 15px/1.5 system-ui, sans-serif; }
    [hidden] { display: none !important; }
    nav { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 14px 0; border-bottom: 1px solid var(--line); }
    nav a[aria-current] { color: var(--ink); font-weight: 650; text-decoration: none; }
    a { color: var(--accent); }
    h1 { font-size: 22px; margin: 20px 0 6px; overflow-wrap: anywhere; }
    h2 { font-size: 16px; margin: 26px 0 8px; } h3 { font-size: 15px; overflow-wrap: anywhere; }
    p, li, dt { overflow-wrap: anywhere; }
    table { border-collapse: collapse; width: 100%; }
    th, td { text-align: left; padding: 7px 12px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
    th { color: var(--soft); font-weight: 600; white-space: nowrap; }
    td.number, th.number { text-align: right; }
    img { max-width: 100%; height: auto; border-radius: 4px; background: var(--panel); }
    td img { width: 120px; max-width: none; display: block; }
    td.wide { min-width: 150px; overflow-wrap: anywhere; } td.time, td.number { white-space: nowrap; } td.name { min-width: 90px; }
    figure { margin: 0; } figcaption { color: var(--soft); font-size: 13px; }
    .images { display: flex; flex-wrap: wrap; gap: 16px; margin: 12px 0; }
    .levels { list-style: none; display: grid; gap: 8px; }
    form { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: end; margin: 12px 0; }
    label { display: grid; gap: 2px; color: var(--soft); font-size: 13px; }
    select, button { font: inherit; padding: 4px 8px; color: inherit; background: var(--panel); border: 1px solid var(--soft);
      border-radius: 4px; }
    button[aria-pressed="true"] { border-color: var(--accent); color: var(--accent); font-weight: 650; }
    button[aria-pressed="true"]::before { content: "\2713 "; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
    .badge { display: inline-block; padding: 1px 9px; border: 1px solid currentColor; border-radius: 20px; font-size: 13px;
      font-weight: 600; overflow-wrap: anywhere; }
    td .badge { white-space: nowrap; }
    .good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); } .soft { color: var(--soft); }
    .panel { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px; margin: 12px 0; }
    .scroll { overflow-x: auto; }
    dl { display: grid; grid-template-columns: fit-content(40%) 1fr; gap: 3px 18px; margin: 8px 0; }
    dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
    code { font-size: 13px; overflow-wrap: anywhere; }
    .stage { display: grid; place-items: center; min-height: 240px; background: var(--panel); border: 1px solid var(--line);
      border-radius: 6px; }
    .stage img, video { max-width: 100%; max-height: 70vh; border-radius: 6px; } .stage p { color: var(--soft); }
    .figures { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 12px 0; }
    .figures dt { font-size: 13px; } .figures dd { font-variant-numeric: tabular-nums; font-weight: 600; }
    .buttons { display: flex; flex-wrap: wrap; gap: 8px; } #said { min-height: 1.5em; }
    .movies { list-style: none; padding: 0; margin: 0; }
    .movies li { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; padding: 7px 0; border-bottom: 1px solid var(--line);
      overflow-wrap: anywhere; }
    @media (max-width: 600px) { td img { width: 72px; } dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
    """#
}
