import Mustache

/// The pages' templates. They work without JavaScript but for the live view, and escape whatever a client named.
enum PageTemplates {
  /// Throws if a template is malformed.
  static func library() throws -> MustacheLibrary {
    var library = MustacheLibrary()
    for (name, text) in [
      "page": page, "captures": captures, "capture": capture, "datasets": datasets, "devices": devices, "live": LivePage.template,
      "message": message,
    ] {
      try library.register(text, named: name)
    }
    return library
  }

  private static let page = """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{{title}} - Takeset</title>
    <style>{{{style}}}</style>
    </head>
    <body>
    <nav aria-label="Pages">{{#links}}<a href="{{href}}"{{#isCurrent}} aria-current="page"{{/isCurrent}}>{{name}}</a>{{/links}}</nav>
    <main>
    {{{body}}}
    </main>
    {{#script}}<script>{{{.}}}</script>{{/script}}
    </body>
    </html>

    """

  private static let message = """
    <h1>{{title}}</h1>
    <p>{{message}}{{#canRepeat}} <a href="">Look again</a>{{/canRepeat}}</p>

    """

  private static let captures = """
    <h1>Captures</h1>
    <p class="soft">{{summary}}</p>
    <form method="get" action="/">
    <label>Type
    <select name="type">
    {{#types}}<option value="{{value}}"{{#isChosen}} selected{{/isChosen}}>{{name}}</option>{{/types}}
    </select></label>
    <label>Status
    <select name="status">
    {{#statuses}}<option value="{{value}}"{{#isChosen}} selected{{/isChosen}}>{{name}}</option>{{/statuses}}
    </select></label>
    <button>Show</button>
    </form>
    {{#isEmpty}}<p>There are no captures to show.</p>{{/isEmpty}}
    {{^isEmpty}}
    <div class="scroll" role="group" aria-label="Captures" tabindex="0">
    <table>
    <thead><tr>
    <th scope="col">Image</th><th scope="col">Capture</th><th scope="col">Status</th><th scope="col">Received</th>
    <th scope="col" class="number">Size</th>
    </tr></thead>
    <tbody>
    {{#captures}}
    <tr>
    <td>{{#thumbnail}}<img src="{{.}}" alt="" loading="lazy">{{/thumbnail}}</td>
    <td class="wide"><a href="/verify/{{id}}"><bdi>{{name}}</bdi></a><br><span class="soft">{{type}}, <bdi>{{project}}</bdi></span></td>
    <td class="wide"><span class="badge {{tone}}">{{status}}</span>{{#reason}}<br><span class="soft"><bdi>{{.}}</bdi></span>{{/reason}}</td>
    <td class="time">{{received}}</td>
    <td class="number">{{size}}</td>
    </tr>
    {{/captures}}
    </tbody>
    </table>
    </div>
    {{/isEmpty}}
    {{#next}}<p><a href="{{.}}" rel="next">Older captures</a></p>{{/next}}

    """

  private static let capture = """
    <h1>{{name}}</h1>
    <p><span class="badge {{tone}}">{{status}}</span>{{#badge}} <span class="badge {{badgeTone}}">{{.}}</span>{{/badge}}</p>
    {{#isProcessing}}<p>It waits for its conversion, or is being converted. <a href="">Look again</a></p>{{/isProcessing}}
    {{#reason}}<p class="panel"><strong>Reason:</strong> <bdi>{{.}}</bdi></p>{{/reason}}
    {{#hasImages}}
    <div class="images">
    {{#thumbnail}}
    <figure><img src="{{.}}" alt="First image of the capture"><figcaption>First image</figcaption></figure>
    {{/thumbnail}}
    {{#overlay}}
    <figure>
    <img src="{{.}}" alt="A depth map of the capture"><figcaption>A depth map, in the colors of its distances; holes are orange</figcaption>
    </figure>
    {{/overlay}}
    </div>
    {{/hasImages}}
    {{#hasLevels}}
    <h2>What is proven</h2>
    <ul class="panel levels">{{#levels}}<li><strong class="{{tone}}">{{mark}} {{name}}</strong><br>{{meaning}}</li>{{/levels}}</ul>
    {{/hasLevels}}
    {{#hasUnverified}}
    <h2>What nobody can check from these files</h2>
    <ul>{{#unverified}}<li>{{.}}</li>{{/unverified}}</ul>
    {{/hasUnverified}}
    <h2>Facts</h2>
    <dl>
    {{#facts}}<dt>{{name}}</dt><dd>{{value}}</dd>{{/facts}}
    {{#dataset}}<dt>dataset</dt><dd><a href="{{href}}">{{name}}</a></dd>{{/dataset}}
    </dl>
    {{#hasDepth}}
    <h2>Depth</h2>
    <dl>{{#depth}}<dt>{{name}}</dt><dd>{{value}}</dd>{{/depth}}</dl>
    {{/hasDepth}}
    {{#hasTakes}}
    <h2>Takes</h2>
    <dl>{{#takes}}<dt>{{name}}</dt><dd>{{value}}</dd>{{/takes}}</dl>
    {{/hasTakes}}
    {{#hasFindings}}
    <h2>Findings</h2>
    <ul>
    {{#findings}}
    <li><span class="{{tone}}"><bdi>{{severity}}</bdi></span> <code><bdi>{{code}}</bdi></code>: <bdi>{{message}}</bdi></li>
    {{/findings}}
    </ul>
    {{/hasFindings}}
    <h2>Files as received</h2>
    {{^hasFiles}}<p>They are no longer kept.</p>{{/hasFiles}}
    {{#hasFiles}}
    <div class="scroll" role="group" aria-label="Files" tabindex="0">
    <table>
    <thead><tr><th scope="col">File</th><th scope="col" class="number">Bytes</th><th scope="col">SHA-256</th></tr></thead>
    <tbody>
    {{#files}}
    <tr>
    <td class="wide"><a href="{{href}}"><bdi>{{name}}</bdi></a></td>
    <td class="number">{{bytes}}</td>
    <td class="wide"><code>{{sha256}}</code></td>
    </tr>
    {{/files}}
    </tbody>
    </table>
    </div>
    {{/hasFiles}}
    {{#moreFiles}}<p>{{.}}</p>{{/moreFiles}}

    """

  private static let datasets = """
    <h1>Datasets</h1>
    {{#isEmpty}}<p>There are none yet. Complete captures are added to the dataset of their project within seconds.</p>{{/isEmpty}}
    {{^isEmpty}}
    <div class="scroll" role="group" aria-label="Datasets" tabindex="0">
    <table>
    <thead><tr>
    <th scope="col">Dataset</th><th scope="col">Project</th><th scope="col" class="number">Captures</th>
    <th scope="col" class="number">Takes</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Size</th>
    <th scope="col">Written</th><th scope="col">Report</th>
    </tr></thead>
    <tbody>
    {{#datasets}}
    <tr>
    <td class="name">{{name}}</td><td class="name">{{project}}</td><td class="number">{{captures}}</td>
    <td class="number">{{takes}}</td><td class="number">{{rows}}</td><td class="number">{{size}}</td>
    <td class="time">{{written}}</td><td><a href="{{href}}">Report of {{name}}</a></td>
    </tr>
    {{/datasets}}
    </tbody>
    </table>
    </div>
    {{/isEmpty}}

    """

  private static let devices = """
    <h1>Devices</h1>
    {{#noDevices}}<p>No device has registered.</p>{{/noDevices}}
    {{^noDevices}}
    <div class="scroll" role="group" aria-label="Devices" tabindex="0">
    <table>
    <thead><tr>
    <th scope="col">Device</th><th scope="col">Model</th><th scope="col">Level</th><th scope="col">Registered</th>
    <th scope="col" class="number">Captures</th>
    </tr></thead>
    <tbody>
    {{#devices}}
    <tr>
    <td class="wide"><code>{{id}}</code></td><td class="wide"><bdi>{{model}}</bdi></td>
    <td><span class="badge {{tone}}">{{level}}</span></td><td class="time">{{registered}}</td><td class="number">{{captures}}</td>
    </tr>
    {{/devices}}
    </tbody>
    </table>
    </div>
    {{#more}}<p>{{.}}</p>{{/more}}
    {{/noDevices}}
    <h2>Keys</h2>
    {{#noKeys}}<p>There are no API keys. <code>takeset-server keys add --data DIR</code> makes one.</p>{{/noKeys}}
    {{^noKeys}}
    <div class="scroll" role="group" aria-label="Keys" tabindex="0">
    <table>
    <thead><tr><th scope="col">Id</th><th scope="col">For</th><th scope="col">Project</th><th scope="col">State</th></tr></thead>
    <tbody>
    {{#keys}}
    <tr>
    <td><code>{{id}}</code></td><td class="wide"><bdi>{{name}}</bdi></td><td class="wide"><bdi>{{project}}</bdi></td><td>{{state}}</td>
    </tr>
    {{/keys}}
    </tbody>
    </table>
    </div>
    {{/noKeys}}

    """
}
