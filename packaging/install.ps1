<#
.SYNOPSIS
Installs, updates or removes the released program on 64-bit Windows 10 or later, without an administrator:

    irm https://github.com/specreel/specreel/releases/latest/download/install.ps1 | iex

.DESCRIPTION
With options:

    & ([scriptblock]::Create((irm https://github.com/specreel/specreel/releases/latest/download/install.ps1))) -Version 0.1.0

The program is installed in $env:LOCALAPPDATA\Programs\specreel, or in the directory of $env:SPECREEL_INSTALL_DIR.
$env:SPECREEL_RELEASES is another address to download from.

.PARAMETER Version
The version to install; the newest by default.

.PARAMETER NoPath
Leaves the user's PATH as it is.

.PARAMETER Uninstall
Removes what was installed; settings, models and captions stay.
#>
param([string]$Version, [switch]$NoPath, [switch]$Uninstall)

# Everything is in functions, and the last line calls them, so that a download that was cut off does nothing.
function Install-Specreel([string]$Version, [bool]$NoPath, [bool]$Uninstall) {
    $ErrorActionPreference = 'Stop'
    # Its progress bar makes Windows PowerShell 5.1 download many times slower.
    $ProgressPreference = 'SilentlyContinue'
    # Windows PowerShell 5.1 does not offer it by itself.
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12

    $repository = 'https://github.com/specreel/specreel'
    $target = 'x86_64-pc-windows-gnu'
    $releases = "$repository/releases"
    if ($env:SPECREEL_RELEASES) { $releases = $env:SPECREEL_RELEASES.TrimEnd('/') }
    $folder = $env:SPECREEL_INSTALL_DIR
    if (-not $folder) { $folder = Join-Path $env:LOCALAPPDATA 'Programs\specreel' }
    $folder = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($folder).TrimEnd('\')
    $list = Join-Path $folder 'installed-files.txt'

    if ($Uninstall) {
        if (-not (Test-Path -LiteralPath $list)) {
            throw "this script has installed nothing in $folder; if it did elsewhere, set SPECREEL_INSTALL_DIR"
        }
        Remove-Installed $folder (Get-Content -LiteralPath $list)
        Remove-Item -LiteralPath $list
        if (-not (Get-ChildItem -LiteralPath $folder -Force)) { Remove-Item -LiteralPath $folder }
        if (-not $NoPath) { Set-UserPath $folder $false }
        Write-Output "removed specreel from $folder; settings, models and captions are still there"
        return
    }

    # A 32-bit PowerShell names the system's processor in the second variable. ARM64 runs the program by emulation.
    $processor = $env:PROCESSOR_ARCHITEW6432
    if (-not $processor) { $processor = $env:PROCESSOR_ARCHITECTURE }
    if ($processor -notin 'AMD64', 'ARM64') { throw "there is no program for the processor $processor; build it from source: $repository" }

    $from = "$releases/latest/download"
    if ($Version) { $from = "$releases/download/v$($Version.TrimStart('v'))" }
    New-Item -ItemType Directory -Force -Path $folder | Out-Null
    # In the same directory, so that files can be renamed into place.
    $temporary = Join-Path $folder ('.new-' + [guid]::NewGuid())
    try {
        New-Item -ItemType Directory -Path $temporary | Out-Null
        $sums = Join-Path $temporary 'SHA256SUMS'
        Get-ReleaseFile "$from/SHA256SUMS" $sums
        $match = Select-String -LiteralPath $sums -Pattern "^([0-9a-f]{64})  (specreel-(.+)-$target)\.zip$" | Select-Object -First 1
        if (-not $match) { throw "there is no program for $target in $from/SHA256SUMS" }
        $groups = $match.Matches[0].Groups
        $sum, $name, $found = $groups[1].Value, $groups[2].Value, $groups[3].Value

        # The sums may be those of the latest release, and a newer one may appear in between.
        $url = "$releases/download/v$found/$name.zip"
        Write-Output "downloading $url"
        $zip = Join-Path $temporary "$name.zip"
        Get-ReleaseFile $url $zip
        if ((Get-FileHash -LiteralPath $zip -Algorithm SHA256).Hash -ne $sum) {
            throw "$url is damaged: its SHA-256 sum is not that of SHA256SUMS; try again, and if this persists, report it: $repository/issues"
        }
        Expand-Archive -LiteralPath $zip -DestinationPath $temporary
        $files = (Get-Item -LiteralPath (Join-Path $temporary $name)).FullName
        & (Join-Path $files 'specreel.exe') --version | Out-Null
        if ($LASTEXITCODE -ne 0) { throw "the program does not start on this system (exit code $LASTEXITCODE)" }

        $old = @()
        if (Test-Path -LiteralPath $list) { $old = @(Get-Content -LiteralPath $list) }
        $new = @(Get-ChildItem -LiteralPath $files -Recurse -File | ForEach-Object { $_.FullName.Substring($files.Length + 1) })
        foreach ($file in $new) {
            if ($file -notin $old -and (Test-Path -LiteralPath (Join-Path $folder $file))) {
                throw "$(Join-Path $folder $file) is there, but not from this script; move it away, or choose another directory: SPECREEL_INSTALL_DIR"
            }
        }
        @($old) + $new | Select-Object -Unique | Set-Content -LiteralPath $list
        foreach ($file in $new) {
            $place = Join-Path $folder $file
            New-Item -ItemType Directory -Force -Path (Split-Path $place) | Out-Null
            # A running program cannot be replaced, but renamed. The next installation removes it.
            if (Test-Path -LiteralPath $place) { Move-Item -Force -LiteralPath $place -Destination "$place.old" }
            Move-Item -LiteralPath (Join-Path $files $file) -Destination $place
            Remove-Item -Force -LiteralPath "$place.old" -ErrorAction SilentlyContinue
        }
        Remove-Installed $folder ($old | Where-Object { $_ -notin $new })
        $new | Set-Content -LiteralPath $list
        if (-not $NoPath) { Set-UserPath $folder $true }
        Write-Output "installed specreel ${found}: $(Join-Path $folder 'specreel.exe')"
        if ($NoPath) { Write-Output "note: PATH is unchanged" }
        else { Write-Output "open a new terminal, and run: specreel" }
    }
    finally {
        Remove-Item -Recurse -Force -LiteralPath $temporary -ErrorAction SilentlyContinue
        if (-not (Get-ChildItem -LiteralPath $folder -Force)) { Remove-Item -LiteralPath $folder }
    }
}

function Get-ReleaseFile([string]$Url, [string]$File) {
    try { Invoke-WebRequest -UseBasicParsing -Uri $Url -OutFile $File }
    catch { throw "cannot download ${Url}: $($_.Exception.Message) Check the connection, and that there is such a version" }
}

# Removes files of an installation, and directories that are empty without them.
function Remove-Installed([string]$Folder, [string[]]$Files) {
    foreach ($file in $Files) {
        $place = Join-Path $Folder $file
        Remove-Item -Force -LiteralPath $place -ErrorAction SilentlyContinue
        if (Test-Path -LiteralPath $place) { throw "cannot remove ${place}: close specreel and try again" }
        Remove-Item -Force -LiteralPath "$place.old" -ErrorAction SilentlyContinue
        $parent = Split-Path $place
        if ($parent -ne $Folder -and (Test-Path -LiteralPath $parent) -and -not (Get-ChildItem -LiteralPath $parent -Force)) {
            Remove-Item -LiteralPath $parent
        }
    }
}

# Adds the directory to the user's PATH, or removes it. The registry is read without expanding the variables that it names.
function Set-UserPath([string]$Folder, [bool]$Present) {
    $key = Get-Item -Path 'HKCU:\Environment'
    $path = $key.GetValue('Path', '', 'DoNotExpandEnvironmentNames')
    $entries = @($path -split ';' | Where-Object { $_ })
    if (($entries -contains $Folder) -eq $Present) { return }
    if ($Present) { $entries = @($Folder) + $entries }
    else { $entries = @($entries | Where-Object { $_ -ne $Folder }) }
    Set-ItemProperty -Path 'HKCU:\Environment' -Name Path -Value ($entries -join ';') -Type ExpandString
    # Setting any variable in this way tells running programs that the environment has changed.
    [Environment]::SetEnvironmentVariable('SPECREEL_PATH_CHANGED', '1', 'User')
    [Environment]::SetEnvironmentVariable('SPECREEL_PATH_CHANGED', [NullString]::Value, 'User')
}

Install-Specreel $Version $NoPath $Uninstall
